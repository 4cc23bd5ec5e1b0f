"""A metric: the name, unit, attributes and description of one OpenTelemetry instrument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from opentelemetry.metrics import Counter, Histogram, Meter

LATENESS_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Boundaries of a histogram of how long after its instant something was done, in seconds."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One instrument as docs/metrics.md lists it.

    Attributes:
        name: The dotted name.
        instrument: ``counter``, ``histogram`` or ``observable gauge``.
        unit: The unit, in OpenTelemetry's notation.
        attributes: The names of the attributes that each measurement carries.
        description: What is measured.
    """

    name: str
    instrument: str
    unit: str
    attributes: tuple[str, ...]
    description: str

    def counter(self, meter: Meter) -> Counter:
        """Create the counter in a meter."""
        return meter.create_counter(self.name, unit=self.unit, description=self.description)

    def histogram(self, meter: Meter, buckets: tuple[float, ...]) -> Histogram:
        """Create the histogram in a meter.

        Args:
            meter: The meter.
            buckets: The boundaries of its buckets, in its unit.
        """
        return meter.create_histogram(
            self.name,
            unit=self.unit,
            description=self.description,
            explicit_bucket_boundaries_advisory=buckets,
        )
