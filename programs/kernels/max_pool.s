# The largest value of each 2×2 window, stride 2: 32 channels of 4×4 int8 to 32 channels of 2×2.
# Inputs region: two blocks of 16 channels, each [y, x, channel]. Outputs region: the same with 2×2.
.machine base16
.inputs 512
.outputs 128
.input  image shape(1, 32, 4, 4)
.output largest shape(1, 32, 2, 2)

max_pool:
  load_act  loops(k=32) d=inputs[0; k=16] y=act[0; k=1]
  # Window (y, x) of block c begins at word 16·c + 8·y + 2·x; its four words are 4·r + s further on.
  max_pool  loops(c=2, y=2, x=2, r=2, s=2) a=act[0; c=16, y=8, x=2, r=4, s=1] y=act[64; c=4, y=2, x=1] wait(load=1)
  store_act loops(k=8) y=act[64; k=1] d=outputs[0; k=16] wait(vec=1)
