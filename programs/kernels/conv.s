# A 3×3 convolution with padding 1: image 4×4×16 and weights 3×3×16×16, int8; sums 4×4×16, int32.
# Inputs region: the image [y, x, channel], then the weights [r, s, channel in, channel out]. Outputs region: [y, x, channel].
.machine base16
.inputs 2560
.outputs 1024
.input  image   shape(4, 4, 16)     stored(1, 16, 4, 4)  axes(2, 0, 1)
.input  weights shape(3, 3, 16, 16) stored(1, 16, 9, 16) axes(3, 0, 1, 2) offset=256
.output sums    shape(4, 4, 16)     stored(1, 16, 4, 4)  axes(2, 0, 1) dtype=int32

conv: macs=36864
  # The padded image is 6×6 words in act; its border keeps the padding value.
  fill      loops(k=36) y=act[0; k=1] value=0
  # The image goes inside: row y, column x to word 6·(y + 1) + (x + 1).
  load_act  loops(j=4, k=4) d=inputs[0; j=64, k=16] y=act[7; j=6, k=1] wait(vec=1)
  load_wgt  loops(k=144) d=inputs[256; k=16] y=wgt[0; k=1]
  # c[y, x] = Σ over r, s of a[y + r, x + s] · w[r, s].
  mma       loops(r=3, s=3, y=4, x=4) a=act[0; r=6, s=1, y=6, x=1] w=wgt[0; r=48, s=16] c=acc[0; y=4, x=1] wait(load=2)
  store_acc loops(k=16) y=acc[0; k=1] d=outputs[0; k=64] wait(mma=1)
