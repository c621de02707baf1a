# y = clamp(round((a + bias) · scale / 2^shift) - 3, -100, 100), ties to even: int32 sums to int8 activations.
# Inputs region: four words of sums. Outputs region: four words of activations.
.machine base16
.inputs 256
.outputs 64
.input  sums        shape(4, 16) stored(1, 16, 4, 1) axes(1, 0) dtype=int32
.output activations shape(4, 16) stored(1, 16, 4, 1) axes(1, 0)

# One word of parameters, lane by lane.
.par bias=0     scale=1     shift=1  x 4                        # halves: every odd sum is a tie
.par bias=-7    scale=3     shift=2  x 4
.par bias=1000  scale=40000 shift=20 x 4
.par bias=0     scale=65535 shift=40 x 3
.par bias=-1    scale=65535 shift=63

requantize:
  load_par   d=weights[0] y=par[0]
  load_acc   loops(k=4) d=inputs[0; k=64] y=acc[0; k=1]
  # The same parameters serve all four words: p does not move.
  requantize loops(k=4) a=acc[0; k=1] p=par[0] y=act[0; k=1] zero=-3 low=-100 high=100 wait(load=2)
  store_act  loops(k=4) y=act[0; k=1] d=outputs[0; k=16] wait(vec=1)
