"""A row of ./dev soak."""
import dataclasses
import os
import pathlib
import random
import shutil
import typing

from cluster import Programs, Site

INSIDE = "LOCKSTEP_SOAK_IN_NAMESPACES"


@dataclasses.dataclass
class Turn:
    """One run of a row."""
    programs: Programs
    work: pathlib.Path
    draw: random.Random
    number: int
    last: bool  # of the row's runs
    site: typing.Optional[Site] = None
    # Shared by the runs of a row. The figures are shown in its last column.
    figures: dict = dataclasses.field(default_factory=dict)
    series: list = dataclasses.field(default_factory=list)

    def most(self, name, value, form="{:,}"):
        """Keeps the greatest value of a figure."""
        if name not in self.figures or value > self.figures[name][0]:
            self.figures[name] = (value, form.format(value))

    def count(self, name, more=1):
        value = self.figures.get(name, (0, ""))[0] + more
        self.figures[name] = (value, f"{value:,}")

    def set(self, name, text):
        self.figures[name] = (0, text)


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    text: str
    run: typing.Callable[[Turn], None]  # raises AssertionError if a promise does not hold
    times: int                          # in the full form
    site: typing.Optional[dict] = None  # arguments of the Site that the runs share; None: each run makes what it needs
    short: bool = False                 # part of the short form, once
    needs: tuple = ()                   # programs, or "namespaces"

    def missing(self):
        """Returns why this machine cannot run the row, or an empty text."""
        without = [need for need in self.needs if (not os.environ.get(INSIDE) if need == "namespaces" else not shutil.which(need))]
        return f"needs {', '.join(without)}" if without else ""
