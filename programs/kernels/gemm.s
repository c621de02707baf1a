# C[8,16] = A[8,32] · B[32,16]: int8 matrices, int32 product.
# Inputs region: A row by row (32 bytes a row), then B row by row. Outputs region: C row by row (64 bytes a row).
.machine base16
.inputs 768
.outputs 512
.input  a shape(8, 32)  stored(1, 32, 8, 1)  axes(1, 0) lanes=32
.input  b shape(32, 16) stored(1, 16, 32, 1) axes(1, 0) offset=256
.output c shape(8, 16)  stored(1, 16, 8, 1)  axes(1, 0) dtype=int32

gemm: macs=4096
  # A's row m falls into two words, columns 0-15 and 16-31: word 8·k + m holds columns 16·k onwards.
  load_act  loops(j=2, k=8) d=inputs[0; j=16, k=32] y=act[0; j=8, k=1]
  # B is two weight tiles of 16 rows, one for each k.
  load_wgt  loops(k=32) d=inputs[256; k=16] y=wgt[0; k=1]
  # c[x] = Σ over k of a[k, x] · w[k]: two tiles, eight vectors through each.
  mma       loops(k=2, x=8) a=act[0; k=8, x=1] w=wgt[0; k=16] c=acc[0; x=1] wait(load=2)
  store_acc loops(k=8) y=acc[0; k=1] d=outputs[0; k=64] wait(mma=1)
