"""What breaks the rules about deadline alerts, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, run_of

RUN = run_of("watched")
ARMED = f"UPDATE alert_timers SET {{}} WHERE run_id = {RUN} AND {{}}"
FIRED = f"UPDATE alerts SET {{}} WHERE run_id = {RUN} AND {{}}"
OF_ACTIVITY = "activity_id > 0 AND kind = 'start_to_close'"
OF_RUN = "activity_id = 0 AND kind = 'execution' AND mark = '80%'"

PLANTED: Planted = [
    (ARMED.format(f"run_id = {run_of('terminated')}", OF_RUN), "is armed, but its run is closed or gone"),
    (ARMED.format("activity_id = 99", OF_ACTIVITY), "is armed, but its activity is closed or gone"),
    (ARMED.format("mark = '70%'", OF_RUN), "is armed, but no policy asks for it"),
    (ARMED.format("attempt = 2", OF_ACTIVITY), "is armed for attempt 2, but attempt 1 is the current one"),
    (ARMED.format("due_at = due_at + 1", OF_RUN), "but its deadline says"),
    (FIRED.format("fired_at = due_at - 7", "kind = 'after'"), "was fired 7 µs early"),
    (
        FIRED.format("acknowledged_by = 'ada', acknowledged_at = fired_at - 3", "kind = 'after'"),
        "was acknowledged 3 µs before it was fired",
    ),
    (FIRED.format("acknowledged_by = 'ada'", "kind = 'after'"), "or by whom, but not both"),
    (FIRED.format("run_id = 'nobody'", "kind = 'after'"), "was fired for a run that is gone"),
    (FIRED.format("scope = 'elsewhere'", "kind = 'after'"), "is unique in elsewhere, but should be in"),
    (
        FIRED.format('deliveries = \'{"oncall": "nowhere"}\'', "kind = 'after'"),
        "is delivered to oncall by nowhere, which is not there",
    ),
    (
        FIRED.format('deliveries = \'{"oncall": "queued"}\'', "kind = 'after'"),
        "is delivered to oncall by queued, which is not there",
    ),
    (f"DELETE FROM alert_timers WHERE run_id = {RUN} AND {OF_RUN}", "is neither armed nor fired"),
]
