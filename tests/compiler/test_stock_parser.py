"""The texts of passes are MLIR: a parser that is not ours reads each."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.test_pipeline import MODELS
from tilewright.compiler.levels import INSTRUCTIONS
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model, pass_named
from tilewright.isa.files.loader import load_machine


@pytest.mark.parametrize(("network", "isa"), [("residual", "base16"), ("max_pool", "dw16"), ("small_cnn", "tiny8")])
def test_a_stock_parser_reads_the_text_of_every_pass(network: str, isa: str) -> None:
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.parser import Parser

    texts: dict[str, str] = {}
    model = MODELS[network](np.random.default_rng(0))
    compile_model(model, load_machine(isa), Options(effort=0), texts.__setitem__)
    for name, text in texts.items():
        if pass_named(name).after is not INSTRUCTIONS:
            context = Context(allow_unregistered=True)
            context.load_dialect(Builtin)
            Parser(context, text, name).parse_module()
