"""A metric: the name, unit, attributes and description of one OpenTelemetry instrument."""

from __future__ import annotations

from dataclasses import dataclass

from opentelemetry.metrics import Counter, Histogram, Meter


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
