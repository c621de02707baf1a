"""Stages that a machine's file adds to its hardware: a shorter clock period for more cycles of latency."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Further stages by the names of their keys: 0 where the file says nothing. `isa/timing.py` says what they cost."""

    memory_output: int = 0  # behind each bank, before one is chosen of several
    select: int = 0  # in each port that reads a memory, behind what chooses one of several banks
    request: int = 0  # before each bank: what it reads and writes, chosen of those who ask
    check: int = 0  # behind what walks through an instruction and checks its accesses, before these are asked for
    start: int = 0  # before an engine takes an instruction: it does once none is active, as registered
    table_output: int = 0  # behind each memory of tables, before a lane computes with what it looked up
    multiply: int = 0  # of each product in a lane
    round_shift: int = 0  # of each rounded shift in a lane
    mac: int = 0  # of each product in an array, before it is added
    halt: int = 0  # before what holds each unit, and behind the faults and the activity that it shows
