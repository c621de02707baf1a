"""What the host computes, for the page: a table with reasons, and where it stands between the machine's programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tilewright.html.wide import wide
from tilewright.isa.program.partitioned import HostNode, HostSegment, Partitioned
from tilewright.isa.program.program import Program


@dataclass(frozen=True, slots=True)
class HostPart:
    """Nodes that run on the host, one after the other, when `programs` of the machine's programs have run."""

    programs: int
    nodes: tuple[HostNode, ...]

    @property
    def title(self) -> str:
        """`host: Softmax, Reshape, … (5 nodes)`, shorter where there are fewer."""
        types = list(dict.fromkeys(node.op_type for node in self.nodes))
        count = f" ({len(self.nodes)} nodes)" if len(self.nodes) > 1 else ""
        return f"host: {', '.join(types[:2])}{', …' if len(types) > 2 else ''}{count}"


def host_parts(network: Program | Partitioned) -> tuple[HostPart, ...]:
    """The host's parts of a network in order; none if the machine runs all of it."""
    if not isinstance(network, Partitioned):
        return ()
    found, programs = [], 0
    for segment in network.segments:
        if isinstance(segment, HostSegment):
            if segment.nodes:
                found.append(HostPart(programs, segment.nodes))
        else:
            programs += 1
    return tuple(found)


def hosts_card(parts: Sequence[HostPart]) -> str:
    """A table of all nodes on the host, with the reason for each and the bytes that pass to it and back."""
    nodes = [node for part in parts for node in part.nodes]
    rows = "\n".join(
        f"<tr><td>{escape(node.name)}</td><td>{escape(node.op_type)}</td><td>{escape(node.reason)}</td>"
        f'<td class="number">{node.transfer_bytes:,}</td></tr>'
        for node in nodes
    )
    heads = '<th scope="col">node</th><th scope="col">operator</th><th scope="col">why</th>'
    heads += '<th scope="col" class="number">bytes to and from</th>'
    count = f"{len(nodes)} node{'s run' if len(nodes) != 1 else ' runs'}"
    return (
        f'<h2 id="host">On the host</h2><p class="quiet">{count} on the host, in no cycle of the machine.</p>'
        + wide(f'<table class="plain"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>', "On the host")
    )
