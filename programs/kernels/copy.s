# DMA alone: eight overlapping windows of 16 bytes, each 3 bytes after the one before, from byte 5 on, in reverse order.
.machine base16
.inputs 48
.outputs 128
.input  bytes   shape(48)    stored(1, 16, 3, 1) view(3, 16) axes(1, 0)
.output windows shape(8, 16) stored(1, 16, 8, 1) axes(1, 0)

copy:
  load_act  loops(k=8) d=inputs[5; k=3] y=act[7; k=-1]
  store_act loops(k=8) y=act[0; k=1] d=outputs[0; k=16] wait(load=1)
