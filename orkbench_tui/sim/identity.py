"""Who the simulated driver says it is. Kept apart so that a client needs nothing else of the kernel."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DRIVERS", "DRM_DESCRIPTION", "DRM_NAME", "NEWEST", "DriverVersion", "date_of"]

DRM_NAME = "rknpu"
DRM_DESCRIPTION = "RKNPU driver"


@dataclass(frozen=True, slots=True)
class DriverVersion:
    """One release of the vendor driver, and what an operator notices of it.

    ``mem_create_bytes`` is its RKNPU_MEM_CREATE; ``domains`` whether it has more than one IOMMU domain and
    ``switch_waits`` whether a switch waits for running jobs. ``wait_line`` is the form of the line a round of
    waiting prints ("" for none), ``one_timeout_line`` whether a time-out is one line, ``counts_reset_lines``
    whether a reset names how many lines it pulsed, ``clamps_load`` whether load stops at 100 %, ``multi_core``
    whether jobs of several cores complete, ``syncs_uncached`` whether MEM_SYNC takes buffers that are not cached,
    ``reports_time`` whether SUBMIT fills in ``hw_elapse_time``, ``names_nbuf_size`` whether the boot line does.
    """

    number: tuple[int, int, int]
    date: str
    mem_create_bytes: int = 48
    domains: bool = True
    switch_waits: bool = True
    wait_line: str = "masks"
    one_timeout_line: bool = False
    counts_reset_lines: bool = True
    clamps_load: bool = True
    multi_core: bool = True
    syncs_uncached: bool = False
    reports_time: bool = True
    names_nbuf_size: bool = True

    @property
    def name(self) -> str:
        return ".".join(map(str, self.number))

    @property
    def code(self) -> int:
        """What GET_DRV_VERSION answers."""
        return self.number[0] * 10000 + self.number[1] * 100 + self.number[2]


def _early(
    number: tuple[int, int, int], date: str, *, old_structures: bool = False, multi_core: bool = True
) -> DriverVersion:
    """Up to 0.8.x structures had other fields where ``iommu_domain_id`` and ``hw_elapse_time`` are now."""
    return DriverVersion(
        number,
        date,
        40 if old_structures else 48,
        multi_core=multi_core,
        syncs_uncached=old_structures,
        reports_time=not old_structures,
        names_nbuf_size=False,
        domains=False,
        wait_line="",
        one_timeout_line=True,
        counts_reset_lines=False,
        clamps_load=False,
    )


NEWEST = DriverVersion((0, 9, 8), "20240828")

DRIVERS: dict[str, DriverVersion] = {
    driver.name: driver
    for driver in (
        _early((0, 8, 2), "20220829", old_structures=True),
        _early((0, 9, 2), "20230825", multi_core=False),
        _early((0, 9, 3), "20231121", multi_core=False),
        DriverVersion(
            (0, 9, 6),
            "20240322",
            switch_waits=False,
            wait_line="one id",
            clamps_load=False,
            names_nbuf_size=False,
        ),
        DriverVersion((0, 9, 7), "20240424", switch_waits=False, wait_line="one id", names_nbuf_size=False),
        NEWEST,
    )
}


def date_of(number: tuple[int, int, int]) -> str:
    """The date a release carries; that of the newest for a number nobody released."""
    found = DRIVERS.get(".".join(map(str, number)))
    return (found or NEWEST).date
