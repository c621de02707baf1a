"""Files of exporters that once showed a fault, or seemed to, each the smallest of its kind."""

from tests.fuzz.targets.exported_files import DeviceFile, QuantisedFile

EXAMPLES: tuple[DeviceFile | QuantisedFile, ...] = (
    # A detector that finds nothing: behind the last box LiteRT leaves what its memory holds, and zeros stand here.
    DeviceFile(
        machine="base16",
        form="detector",
        fields=(("threshold", 1.5), ("has_background", False), ("most", 1)),
    ),
    # A scale of another operator of com.microsoft: ONNX Runtime refuses it when it runs, and so does the host.
    QuantisedFile(machine="base16", form=18, changes=(("rewire", 1, 1, 0),)),
    # LiteRT has no kernel for 8-bit states of SVDF, and computes anything.
    DeviceFile(machine="base16", form="SVDF of 8 bits"),
)
