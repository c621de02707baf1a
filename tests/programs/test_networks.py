"""Each network is the one of its paper: published work and parameters, valid ONNX, int8 around every operator."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from programs.networks.builder import Builder
from programs.networks.depthwise import WAYS, cycles_of
from programs.networks.quantise import KEEP_PARAMETERS, random_inputs
from programs.networks.registry import NETWORKS, OF_MANY_NODES, float_network, int8_network, is_network

SMALL = ("autoencoder", "ds-cnn", "mobilenetv1-0.25", "resnet8", "resnet20v2")

UNFOLDED = 1
"""A convolution without bias and its normalisation's scale and shift: one more than a bias for each channel."""

UNFOLDED_WITH_STATISTICS = 3
"""Keras also counts the mean and variance of a normalisation."""

BIAS_AND_STATISTICS = 4
"""Keras again, with a bias that the normalisation makes needless."""


@dataclass(frozen=True, slots=True)
class Published:
    """What is published of a network, with its source.

    `macs` has the digits that the source gives, `precision` the last of them; `per_channel`: parameters that the
    source counts for a normalised channel beside the bias that it becomes.
    """

    macs: float
    precision: float
    parameters: int
    per_channel: int
    source: str


TORCHVISION = "torchvision's table of weights: `_ops` (1e9 multiply-accumulates) and `num_params`"
MLPERF_TINY = "Keras's summary of the MLPerf Tiny reference model; work by hand: "


def encoder_macs(layers: int, tokens: int, features: int, hidden: int) -> int:
    """Four linear layers and two products of tokens with tokens, then two linear layers."""
    return layers * (4 * tokens * features**2 + 2 * tokens**2 * features + 2 * tokens * features * hidden)


PUBLISHED = {
    "autoencoder": Published(
        2 * 640 * 128 + 6 * 128 * 128 + 2 * 128 * 8, 1, 269_992, BIAS_AND_STATISTICS, MLPERF_TINY + "ten matrices"
    ),
    # 4,385,920 parameters less 3,972,608 of embeddings and 16,512 of a pooler: two layers, a normalisation before them.
    "bert-tiny": Published(
        encoder_macs(2, 128, 128, 512), 1, 4_385_920 - 3_972_608 - 16_512, UNFOLDED, "the release; work by hand"
    ),
    # ResNet-50 v1.5 with q, k, v in place of three 3x3 convolutions of 512 channels, at 14x14 and twice 7x7 positions
    # (where the first strided one ran at 7x7, and the layer before it at 14x14), and the products with scores.
    "botnet50": Published(
        4.089e9 - 3 * 49 * 9 * 512 * 512 + (196 + 49 + 49) * 3 * 512 * 512 + 2 * (196**2 + 2 * 49**2) * 512,
        0.001e9,
        25_557_032 - 3 * 9 * 512 * 512 + 3 * 3 * 512 * 512 + (14 + 14 + 4 * 7) * 512,
        UNFOLDED,
        "BoTNet, table 1 and figure 4: 20.8e6 parameters; torchvision's figures of ResNet-50, and the blocks by hand",
    ),
    # For each block: sizes before and after, channels in, inside and out. MobileNetV2 without its last convolution and
    # its classifier; a head of four convolutions, the first of them over the average of the image.
    "deeplabv3-mobilenetv2": Published(
        257**2 * 27 * 32
        + 257**2 * (9 * 32 + 32 * 16)
        + sum(
            before**2 * given * inside + after**2 * (9 * inside + inside * made)
            for before, after, given, inside, made in [
                (257, 129, 16, 96, 24), (129, 129, 24, 144, 24), (129, 65, 24, 144, 32), *[(65, 65, 32, 192, 32)] * 2,
                (65, 33, 32, 192, 64), *[(33, 33, 64, 384, 64)] * 3, (33, 33, 64, 384, 96),
                *[(33, 33, 96, 576, 96)] * 2, (33, 33, 96, 576, 160), *[(33, 33, 160, 960, 160)] * 2,
                (33, 33, 160, 960, 320),
            ]
        )
        + 320 * 256 + 33**2 * (320 * 256 + 512 * 256 + 256 * 21),
        1,
        3_504_872 - (1280 * 1000 + 1000) - (320 * 1280 + 2 * 1280)
        + 2 * (320 * 256 + 2 * 256) + 512 * 256 + 2 * 256 + 256 * 21 + 21,
        UNFOLDED,
        "by hand; MobileNetV2, table 7: 2.11e6 parameters and 2.75e9 multiply-accumulates",
    ),
    # 10x4 taps to 25x5 positions, then four times 3x3 taps and 64 channels, then the classifier.
    "ds-cnn": Published(
        125 * 64 * 40 + 4 * 125 * 64 * (9 + 64) + 64 * 12, 1, 24_908, BIAS_AND_STATISTICS, MLPERF_TINY + "125 places"
    ),
    # The release says 407e6 for B0 without its squeeze-and-excite, which its paper gives as 0.39e9.
    "efficientnet-lite0": Published(0.39e9, 0.01e9, 4_652_008, UNFOLDED, "EfficientNet, table 2, B0; timm's model"),
    # 124,439,808 parameters less the tables of words and places and the last normalisation: twelve blocks.
    "gpt2-block": Published(
        encoder_macs(1, 128, 768, 3072),
        1,
        (124_439_808 - 50_257 * 768 - 1024 * 768 - 2 * 768) // 12,
        UNFOLDED,
        "the release of the smallest network; work by hand",
    ),
    # 3.8e6 operations, each half of a multiply-accumulate; one more bias for each gate than TensorFlow has.
    "gru-keywords": Published(
        3.8e6 / 2, 0.1e6 / 2, 3 * 154 * (10 + 154 + 2) + 155 * 12, UNFOLDED, "Hello Edge, GRU-S; parameters by hand"
    ),
    # 98 columns of 40 coefficients and a class token; q, k and v without biases.
    "kwt-1": Published(
        98 * 40 * 64 + encoder_macs(12, 99, 64, 256) + 64 * 12,
        1,
        40 * 64 + 64 + 64 + 99 * 64 + 12 * (4 * 64**2 + 64 + 2 * 64 * 256 + 256 + 64 + 4 * 64) + 64 * 12 + 12,
        UNFOLDED,
        "Keyword Transformer, table 1: 607 thousand parameters; exactly by hand",
    ),
    # Two LSTMs, of 128 and 256 features, and two linear layers; two biases for each gate, as ONNX has them.
    "lstm-denoiser": Published(
        4 * 256 * (128 + 256) + 4 * 256 * (256 + 256) + 256 * 128 + 128 * 128,
        1,
        4 * 256 * (128 + 256 + 2) + 4 * 256 * (256 + 256 + 2) + 257 * 128 + 129 * 128,
        UNFOLDED,
        "TinyLSTMs: a baseline of 0.97 million parameters, 3.7 MB; exactly by hand",
    ),
    "lstm-tagger": Published(
        32 * (2 * 4 * 200 * (130 + 200) + 400 * 17),
        1,
        2 * 4 * 200 * (130 + 200 + 2) + 401 * 17,
        UNFOLDED,
        "by hand from the sizes of BLSTM-CNNs-CRF, table 1",
    ),
    # Linear layers between 512 and 128 features: two in, v, four times two, one out; q, k and the one after attention
    # within 128. A bias for each of their results; scales and biases of 2 + 1 + 4 NoNorms of 128 and one of 512.
    "mobilebert-block": Published(
        128 * (12 * 512 * 128 + 3 * 128**2) + 2 * 128**2 * 128,
        1,
        12 * 512 * 128 + 3 * 128**2 + (2 + 1 + 3 + 4) * 128 + 4 * 512 + 512 + 2 * (7 * 128 + 512),
        UNFOLDED,
        "MobileBERT, table 1 and figure 1: 25.3e6 parameters in 24 blocks and embeddings; exactly by hand",
    ),
    "mobilenetv1": Published(569e6, 1e6, 4_253_864, UNFOLDED_WITH_STATISTICS, "MobileNets, table 4; Keras's summary"),
    "mobilenetv1-0.25": Published(7.49e6, 0.01e6, 221_794, BIAS_AND_STATISTICS, MLPERF_TINY + "7.49e6"),
    "mobilenetv2": Published(0.301e9, 0.001e9, 3_504_872, UNFOLDED, TORCHVISION),
    "mobilenetv3-large": Published(0.217e9, 0.001e9, 5_483_032, UNFOLDED, TORCHVISION),
    "mobilenetv3-small": Published(0.057e9, 0.001e9, 2_542_856, UNFOLDED, TORCHVISION),
    "resnet8": Published(12.5e6, 0.1e6, 78_666, BIAS_AND_STATISTICS, MLPERF_TINY + "12.5e6"),
    "resnet18": Published(1.814e9, 0.001e9, 11_689_512, UNFOLDED, TORCHVISION),
    # Bottlenecks at 32x32 (16 to 64 channels), 16x16 (64 to 128) and 8x8 (128 to 256), two each, the first projecting.
    "resnet20v2": Published(
        1024 * (27 * 16 + 16 * 16 + 2 * 9 * 16 * 16 + 2 * 16 * 64 + 16 * 64 + 64 * 16)
        + 256 * (64 * 64 + 2 * 9 * 64 * 64 + 2 * 64 * 128 + 64 * 128 + 128 * 64)
        + 64 * (128 * 128 + 2 * 9 * 128 * 128 + 2 * 128 * 256 + 128 * 256 + 256 * 128)
        + 256 * 10,
        1,
        574_090,
        BIAS_AND_STATISTICS,
        "Keras's summary of cifar10_resnet with version 2, n 2; work by hand",
    ),
    "resnet50": Published(3.86e9, 0.01e9, 25_557_032, UNFOLDED, "Deep Residual Learning, table 1: 3.8e9, cut off"),
    "resnet50v1.5": Published(4.089e9, 0.001e9, 25_557_032, UNFOLDED, TORCHVISION),
    "shufflenetv2": Published(0.145e9, 0.001e9, 2_278_604, UNFOLDED, TORCHVISION),
    "squeezenet1.0": Published(0.819e9, 0.001e9, 1_248_424, UNFOLDED, TORCHVISION),
    "squeezenet1.1": Published(0.349e9, 0.001e9, 1_235_496, UNFOLDED, TORCHVISION),
    # As below; as many keys and values as heads, and matrices to and from 768 features.
    "stories15m": Published(
        64 * (6 * (4 * 288**2 + 3 * 288 * 768) + 288 * 32000) + 6 * 2 * 64**2 * 288,
        1,
        32000 * 288 + 6 * (4 * 288**2 + 3 * 288 * 768 + 2 * 288) + 288,
        UNFOLDED,
        "tinyllamas: 15 million parameters; exactly by hand",
    ),
    "stories15m-step": Published(
        6 * (4 * 288**2 + 3 * 288 * 768) + 288 * 32000 + 6 * 2 * 65 * 288,
        1,
        32000 * 288 + 6 * (4 * 288**2 + 3 * 288 * 768 + 2 * 288) + 288,
        UNFOLDED,
        "the same network",
    ),
    # The table of embeddings is the classifier's, too. Keys and values of half as many heads; three matrices to and
    # from 172 features.
    "stories260k": Published(
        64 * (5 * (3 * 64**2 + 3 * 64 * 172) + 64 * 512) + 5 * 2 * 64**2 * 64,
        1,
        512 * 64 + 5 * (3 * 64**2 + 3 * 64 * 172 + 2 * 64) + 64,
        UNFOLDED,
        "tinyllamas: 260 thousand parameters; exactly by hand",
    ),
    # Of one token, which sees itself and 64 before it.
    "stories260k-step": Published(
        5 * (3 * 64**2 + 3 * 64 * 172) + 64 * 512 + 5 * 2 * 65 * 64,
        1,
        512 * 64 + 5 * (3 * 64**2 + 3 * 64 * 172 + 2 * 64) + 64,
        UNFOLDED,
        "the same network",
    ),
    # Per level of size s and width w: down from w/2 (1 at the top) and up from 2w, two convolutions each, and up_conv.
    "unet": Published(
        sum(
            (128 >> level) ** 2
            * (9 * (w // 2 if level else 1) * w + 9 * w * w + 9 * 2 * w * w + 9 * w * w + 2 * w * w)
            for level, w in enumerate((16, 32, 64, 128))
        )
        + 8 * 8 * 9 * (128 * 256 + 256 * 256)
        + 128 * 128 * 16 * 2,
        1,
        sum(
            9 * (w // 2 if level else 1) * w + 9 * w * w + 9 * 2 * w * w + 9 * w * w + 4 * 2 * w * w + 5 * w
            for level, w in enumerate((16, 32, 64, 128))
        )
        + 9 * (128 * 256 + 256 * 256) + 2 * 256 + 16 * 2 + 2,
        UNFOLDED,
        "by hand from figure 1, a quarter as wide",
    ),
    "vit-tiny": Published(
        196 * 192 * 768 + encoder_macs(12, 197, 192, 768) + 192 * 1000,
        1,
        5_717_416,
        UNFOLDED,
        "timm's model; work by hand, 1.3e9 in DeiT's table 5",
    ),
    # Three taps of 80 bands at 3000 places, three of 384 channels at 1500; no bias in k; a normalisation at the end.
    "whisper-tiny-encoder": Published(
        3000 * 3 * 80 * 384 + 1500 * 3 * 384**2 + encoder_macs(4, 1500, 384, 1536),
        1,
        37_184_640 - (51_865 + 448) * 384 - 4 * (8 * 384**2 + 6 * 384 + 2 * 384 * 1536 + 5 * 384 + 6 * 384) - 2 * 384,
        UNFOLDED,
        "Whisper, table 1: 39e6 parameters; the release's, less those of the decoder; work by hand",
    ),
    "yolov3-tiny": Published(
        2.78e9, 0.01e9, 8_858_734, UNFOLDED_WITH_STATISTICS, "the authors' site: 5.56e9 operations; size of the weights"
    ),
    "yolov3-tiny-boxes": Published(2.78e9, 0.01e9, 8_858_734, UNFOLDED_WITH_STATISTICS, "the same network"),
}  # fmt: skip


@cache
def built(name: str) -> tuple[onnx.ModelProto, int]:
    """The float network, and how many channels had a normalisation."""
    builder = Builder(name)
    return NETWORKS[name](builder), builder.folded_channels


def test_every_network_has_published_figures() -> None:
    assert sorted(PUBLISHED) == sorted(NETWORKS)


@pytest.mark.parametrize("name", NETWORKS)
def test_does_the_published_work(name: str) -> None:
    published = PUBLISHED[name]
    assert abs(macs(built(name)[0]) - published.macs) <= published.precision / 2


@pytest.mark.parametrize("name", NETWORKS)
def test_has_the_published_parameters(name: str) -> None:
    model, folded_channels = built(name)
    assert stored_parameters(model) + PUBLISHED[name].per_channel * folded_channels == PUBLISHED[name].parameters


# 1e6 multiply-accumulates and parameters: of MobileNetV1 in its paper, tables 6 and 9; of MobileNetV2 in the authors'
# release (tensorflow/models, research/slim/nets/mobilenet), whose parameters are those of normalisations, too.
SIZES = {
    "mobilenetv1-0.75-224": (325, 2.6), "mobilenetv1-0.5-160": (76, 1.32),
    "mobilenetv2-0.35-96": (11, 1.66), "mobilenetv2-0.5-160": (50, 1.95), "mobilenetv2-1.4-224": (582, 6.06),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_other_sizes_do_the_published_work(name: str) -> None:
    model = float_network(name)
    work, parameters = SIZES[name]
    assert macs(model) / 1e6 == pytest.approx(work, abs=1)
    assert stored_parameters(model) / 1e6 == pytest.approx(parameters, rel=0.03)


@pytest.mark.parametrize("name", ["mobilenetv2-0.05-96", "mobilenetv2-1.0-16", "resnet8-0.5-32", "mobilenetv2-0.5"])
def test_other_names_are_no_networks(name: str) -> None:
    assert not is_network(name)


@pytest.mark.parametrize("name", NETWORKS)
def test_names_every_node_once(name: str) -> None:
    names = [node.name for node in built(name)[0].graph.node]
    assert all(names) and len(set(names)) == len(names)


IN_INT8 = [name for name in NETWORKS if name not in OF_MANY_NODES]


@pytest.mark.parametrize("name", [n if n in SMALL else pytest.param(n, marks=pytest.mark.slow) for n in IN_INT8])
def test_is_int8_around_every_operator(name: str) -> None:
    nodes = int8_network(name).graph.node
    producer = {output: node for node in nodes for output in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in nodes:
        for source in node.input:
            readers.setdefault(source, []).append(node)
    for node in nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        for source in node.input:
            if source in producer:
                before = producer[source].op_type
                assert before == "DequantizeLinear" or before in KEEP_PARAMETERS, f"{node.name} reads {source}"
        for output in node.output:
            after = {reader.op_type for reader in readers[output]}
            assert after == {"QuantizeLinear"} or node.op_type in KEEP_PARAMETERS, f"{node.name} gives {output}"


@pytest.mark.parametrize("name", SMALL)
def test_activations_do_not_collapse(name: str) -> None:
    """Every quantised tensor spreads over at least 24 of its 256 values, on an image that gave no range."""
    model = int8_network(name)
    quantised = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    for tensor in quantised:
        model.graph.output.append(onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.INT8, None))
    values = plain_session(model).run(quantised, random_inputs(model, seed=99))
    for tensor, array in zip(quantised, values, strict=True):
        assert int(array.max()) - int(array.min()) >= 24, tensor


@pytest.mark.parametrize("name", ["resnet8", pytest.param("mobilenetv3-small", marks=pytest.mark.slow)])
def test_two_processes_write_the_same_bytes(name: str, tmp_path: Path) -> None:
    first, second = (written_by_a_process(name, f"{tmp_path}/{seed}.onnx", seed) for seed in ("1", "2"))
    assert first == second


def test_refuses_an_unknown_name() -> None:
    command = [sys.executable, "-m", "programs.networks", "resnet9"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "no network 'resnet9'" in result.stderr


@pytest.mark.slow
def test_measures_a_network_and_reports_one_that_is_not_there() -> None:
    command = [sys.executable, "-m", "programs.networks.measure", "autoencoder", "nothing"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 4
    assert lines[2].split()[0] == "autoencoder" and "264,192" in lines[2].split()
    assert lines[3].split(maxsplit=1)[1].startswith(f"no network 'nothing'; there are: {', '.join(NETWORKS)}")


def stored_parameters(model: onnx.ModelProto) -> int:
    """Weights, biases and normalisations, without the constants of operators."""
    constants = ("relu6.low", "relu6.high", "upsample.scales", "gelu.root", "gelu.one", "gelu.half")
    constants += ("gelu.three", "gelu.part", "gelu.wide")
    constants += ("norm.one", "norm.two", "norm.epsilon", "cos", "sin", "mask")
    not_trained = (".factor", ".constant", ".shape", ".sizes", ".start", ".end", ".axis")
    return sum(
        prod(tensor.dims)
        for tensor in model.graph.initializer
        if tensor.name not in constants and not tensor.name.endswith(not_trained)
    )


def macs(model: onnx.ModelProto) -> int:
    """Multiply-accumulates of all products, from the shapes that onnx infers and nothing else."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    shapes = {
        value.name: [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    total = 0
    for node in graph.node:
        match node.op_type:
            case "Conv":  # each output is a sum over input channels of its group and taps
                total += prod(shapes[node.output[0]]) * prod(shapes[node.input[1]][1:])
            case "ConvTranspose":  # each input is spread over output channels and taps
                total += prod(shapes[node.input[0]]) * prod(shapes[node.input[1]][1:])
            case "Gemm":
                total += prod(shapes[node.output[0]]) * shapes[node.input[1]][1]
            case "MatMul":
                total += prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
            case "LSTM" | "GRU":  # each step and sequence meets all weights
                steps, batch, _ = shapes[node.input[0]]
                total += steps * batch * sum(prod(shapes[weights]) for weights in node.input[1:3])
    return total


def written_by_a_process(name: str, path: str, hash_seed: str) -> bytes:
    """The network as another process writes it; sets and dictionaries of strings are ordered by `hash_seed`."""
    environment = {"PYTHONHASHSEED": hash_seed, "PATH": ""}
    subprocess.run([sys.executable, "-m", "programs.networks", name, "-o", path], check=True, env=environment)
    with open(path, "rb") as file:
        return file.read()


def plain_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """ONNX Runtime with every graph optimisation off, on one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def test_weights_do_not_depend_on_other_layers() -> None:
    """Reproducible where an architecture changes elsewhere: a weight follows from the network's and its own name."""
    first, second = Builder("n"), Builder("n")
    x, y = first.input("x", 8, 4, 4), second.input("x", 8, 4, 4)
    y = second.conv("before", y, 8, 3)
    weights = []
    for builder, value in ((first, x), (second, y)):
        model = builder.model(y=builder.conv("after", value, 8, 3))
        weights.append({t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}["after.weight"])
    assert np.array_equal(*weights)


def test_float_and_int8_agree_roughly() -> None:
    """Quantisation adds noise, not another function: logits differ by less than a tenth of their spread."""
    model, quantised = float_network("resnet8"), int8_network("resnet8")
    feed = dict(random_inputs(model, seed=5))
    exact, rounded = (plain_session(of).run(None, feed)[0] for of in (model, quantised))
    assert np.abs(exact - rounded).max() < 0.1 * np.ptp(exact)


@pytest.mark.parametrize("name", NETWORKS)
def test_readme_has_the_figures(name: str, repository: Path) -> None:
    model, _ = built(name)
    shape = [dimension.dim_value for dimension in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    rows = (repository / "programs/networks/README.md").read_text().splitlines()
    row = next(row for row in rows if row.startswith(f"| `{name}` |"))  # of the first table
    columns = [column.strip() for column in row.split("|")]
    assert columns[3] == "×".join(map(str, shape))
    assert [int(column.replace(" ", "")) for column in columns[4:6]] == [stored_parameters(model), macs(model)]


@pytest.mark.slow
def test_each_way_of_depthwise_convolutions_is_faster_than_the_one_before() -> None:
    cycles = [cycles_of("ds-cnn", isa, changes) for _, isa, changes in WAYS]
    assert cycles == sorted(cycles, reverse=True) and len(set(cycles)) == len(WAYS)
