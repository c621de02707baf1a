"""The table of networks: how each is built, and what is published of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import onnx

from programs.networks.botnet import botnet50
from programs.networks.builder import Builder
from programs.networks.decoder import (
    stories_15m,
    stories_15m_samples,
    stories_15m_step,
    stories_260k,
    stories_260k_samples,
    stories_260k_step,
)
from programs.networks.deeplab import deeplab_v3_mobilenet_v2
from programs.networks.efficientnet_lite import efficientnet_lite0
from programs.networks.gpt2 import gpt2_block
from programs.networks.mlperf_tiny import autoencoder, ds_cnn
from programs.networks.mobilebert import mobilebert_block
from programs.networks.mobilenet_v1 import mobilenet_v1, mobilenet_v1_025
from programs.networks.mobilenet_v2 import mobilenet_v2
from programs.networks.mobilenet_v3 import mobilenet_v3_large, mobilenet_v3_small
from programs.networks.quantise import Feed, quantise, quantise_ends, random_samples
from programs.networks.recurrent import gru_keywords, lstm_denoiser, lstm_tagger
from programs.networks.resnet import resnet8, resnet18, resnet50, resnet50_v1_5
from programs.networks.resnet_v2 import resnet20_v2
from programs.networks.shufflenet_v2 import shufflenet_v2
from programs.networks.squeezenet import squeezenet_1_0, squeezenet_1_1
from programs.networks.transformer import bert_tiny, kwt_1, vit_tiny
from programs.networks.unet import unet
from programs.networks.whisper import whisper_tiny_encoder
from programs.networks.yolo import yolov3_tiny, yolov3_tiny_boxes

NETWORKS: dict[str, Callable[[Builder], onnx.ModelProto]] = {
    "autoencoder": autoencoder,
    "bert-tiny": bert_tiny,
    "botnet50": botnet50,
    "deeplabv3-mobilenetv2": deeplab_v3_mobilenet_v2,
    "ds-cnn": ds_cnn,
    "efficientnet-lite0": efficientnet_lite0,
    "gpt2-block": gpt2_block,
    "gru-keywords": gru_keywords,
    "kwt-1": kwt_1,
    "lstm-denoiser": lstm_denoiser,
    "lstm-tagger": lstm_tagger,
    "mobilebert-block": mobilebert_block,
    "mobilenetv1": mobilenet_v1,
    "mobilenetv1-0.25": mobilenet_v1_025,
    "mobilenetv2": mobilenet_v2,
    "mobilenetv3-large": mobilenet_v3_large,
    "mobilenetv3-small": mobilenet_v3_small,
    "resnet8": resnet8,
    "resnet18": resnet18,
    "resnet20v2": resnet20_v2,
    "resnet50": resnet50,
    "resnet50v1.5": resnet50_v1_5,
    "shufflenetv2": shufflenet_v2,
    "squeezenet1.0": squeezenet_1_0,
    "squeezenet1.1": squeezenet_1_1,
    "stories15m": stories_15m,
    "stories15m-step": stories_15m_step,
    "stories260k": stories_260k,
    "stories260k-step": stories_260k_step,
    "unet": unet,
    "vit-tiny": vit_tiny,
    "whisper-tiny-encoder": whisper_tiny_encoder,
    "yolov3-tiny": yolov3_tiny,
    "yolov3-tiny-boxes": yolov3_tiny_boxes,
}
"""Name on the command line → its builder."""

OF_MANY_NODES: dict[str, Callable[[onnx.ModelProto], Feed]] = {
    "bert-tiny": random_samples,
    "gpt2-block": random_samples,
    "gru-keywords": random_samples,
    "kwt-1": random_samples,
    "lstm-denoiser": random_samples,
    "lstm-tagger": random_samples,
    "mobilebert-block": random_samples,
    "stories15m": random_samples,
    "stories15m-step": stories_15m_samples,
    "stories260k": random_samples,
    "stories260k-step": stories_260k_samples,
    "vit-tiny": random_samples,
    "whisper-tiny-encoder": random_samples,
}
"""Networks in which several nodes are one operation, or one is many: `tilewright quantize` takes them, and samples."""


OF_ANY_SIZE = {"mobilenetv1": mobilenet_v1, "mobilenetv2": mobilenet_v2}
"""Networks that are published in many sizes: `mobilenetv2-0.35-160` is 0.35 times as wide, for images of 160×160."""

SIZED = re.compile(r"(?P<name>\w+)-(?P<width>[0-9]+\.[0-9]+)-(?P<size>[0-9]+)", re.ASCII)

LEAST_WIDTH, MOST_WIDTH = 0.1, 2.0
LEAST_SIZE, MOST_SIZE = 32, 1024


def is_network(name: str) -> bool:
    """Whether a name is of the table, or of a network of any size with a width and a size that can be built."""
    sized = SIZED.fullmatch(name)
    if sized is None or name in NETWORKS:
        return name in NETWORKS
    is_wide_enough = LEAST_WIDTH <= float(sized["width"]) <= MOST_WIDTH
    return sized["name"] in OF_ANY_SIZE and is_wide_enough and LEAST_SIZE <= int(sized["size"]) <= MOST_SIZE


def build(name: str, builder: Builder) -> onnx.ModelProto:
    """The network of a name that `is_network`, in float32."""
    sized = None if name in NETWORKS else SIZED.fullmatch(name)
    if sized is None:
        return NETWORKS[name](builder)
    return OF_ANY_SIZE[sized["name"]](builder, float(sized["width"]), int(sized["size"]))


def float_network(name: str) -> onnx.ModelProto:
    """A network by its name, in float32."""
    return build(name, Builder(name))


def int8_network(name: str) -> onnx.ModelProto:
    """A network by its name, quantised to int8."""
    model = float_network(name)
    return quantise_ends(model, OF_MANY_NODES[name](model)) if name in OF_MANY_NODES else quantise(model)
