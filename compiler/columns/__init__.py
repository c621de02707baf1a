"""Level 1 to level 1: columns of tensors with few channels are joined, so that their convolutions fill the array.

A word of the activation memory holds the channels of one pixel. A layer of 16 channels uses a quarter of an array of
32 × 32. With two columns joined, its tensor [N, C, H, W] is one of [N, 2 · C, H, W / 2]: channel `p · C + c` is channel
`c` of the p-th column of each pair. A convolution of joined columns has other weights, with zeros where a column of its
input is outside of the window of a column of its result. It computes the same sums, in fewer vectors of the array.

A convolution may read single columns and give joined ones. The opposite needs a stride that is a multiple of how many
are joined. What works element by element takes and gives columns as they are.

Which columns are joined is estimated (`proposal`) and then measured by the exact cycle model (`decide`).
"""
