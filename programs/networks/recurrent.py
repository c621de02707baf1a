"""Recurrent networks: LSTM and GRU as one node, which `tilewright quantize` writes out as steps.

A sequence is [1, steps, features] at the ends of a network, and [steps, 1, features] between, as ONNX has it.
"""

from __future__ import annotations

import onnx

from programs.networks.builder import LINEAR_GAIN, RELU_GAIN, Builder


def lstm_denoiser(builder: Builder) -> onnx.ModelProto:
    """One frame of TinyLSTMs' baseline: Fedorov et al., 2020 (arXiv:2005.11138).

    Two LSTMs of 256 and two linear layers of 128 give a mask over 128 mel bands. The states come in and go out, so that
    a stream is a run for each frame.
    """
    x, states = builder.input("frame", 1, 128), {}
    for layer in ("lstm1", "lstm2"):
        first = [builder.input(f"{layer}.{state}", 1, 256) for state in ("h", "c")]
        x, h, c = builder.recurrent("LSTM", layer, x, 256, states=first)
        x = builder.reshape(f"{layer}.steps", x, (1, 1, 256))
        states |= {f"{layer}.next_h": h, f"{layer}.next_c": c}
    x = builder.relu(builder.dense("linear1", builder.reshape("row", x, (1, 256)), 128, gain=RELU_GAIN))
    mask = builder.reshape("mask.frame", builder.sigmoid(builder.dense("linear2", x, 128)), (1, 1, 128))
    return builder.model(mask=mask, **states)


def lstm_tagger(builder: Builder) -> onnx.ModelProto:
    """The bidirectional LSTM of BLSTM-CNNs-CRF for 32 words: Ma and Hovy, 2016 (arXiv:1603.01354), 200 each way.

    A word is the 100 numbers of its embedding and 30 of its letters; there are 17 tags, the four classes of CoNLL-2003
    in BIOES. The tables of words before it and the Viterbi search after it are the host's.
    """
    words = builder.transpose("steps", builder.input("words", 32, 130), (1, 0, 2))
    both, *_ = builder.recurrent("LSTM", "bilstm", words, 200, directions=2)
    joined = builder.reshape("joined", builder.transpose("turned", both, (0, 2, 1, 3)), (32, 1, 400))
    scores = builder.linear("tags", joined, 17)
    return builder.model(scores=builder.transpose("scores", scores, (1, 0, 2)))


def gru_keywords(builder: Builder) -> onnx.ModelProto:
    """Hello Edge's GRU-S: Zhang et al., 2017 (arXiv:1711.07128), sizes of its train_commands.txt; 12 words.

    25 frames of 40 ms, of 10 cepstral coefficients each, and 154 hidden values.
    """
    frames = builder.transpose("steps", builder.input("coefficients", 25, 10), (1, 0, 2))
    _, last = builder.recurrent("GRU", "gru", frames, 154)
    logits = builder.dense("head", builder.reshape("row", last, (1, 154)), 12, gain=LINEAR_GAIN)
    return builder.model(logits=logits)
