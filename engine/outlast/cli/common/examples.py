"""One example of each command, for its help; the page of the command line has more."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, str]] = {
    "migrate": "outlast migrate --url postgresql://orders@db/orders",
    "worker": "outlast worker orders --url sqlite:///orders.db",
    "effects create": "outlast effects create --url mysql+pymysql://shop@db/shop",
    "effects prune": "outlast effects prune --url mysql+pymysql://shop@db/shop --older-than 30d",
    "check": "outlast check orders",
    "start": "outlast start Order --id order-1 --input '\"o-1\"' --input 5 --execution-timeout 2h",
    "list": "outlast list --url sqlite:///orders.db --status failed",
    "count": "outlast count --status failed",
    "describe": "outlast describe order-1",
    "history": "outlast history order-1",
    "stream": "outlast stream asking tokens --follow",
    "export": "outlast export order-1 --chain -o order-1.jsonl",
    "import": "outlast import order-1.jsonl --url sqlite:///copy.db",
    "replay": "outlast replay orders histories/orders.jsonl",
    "result": "outlast result order-1 --timeout 60",
    "signal": "outlast signal order-1 approve --input '\"ada\"'",
    "query": "outlast query order-1 status",
    "stack": "outlast stack order-1",
    "update": "outlast update order-1 add_item --input '\"book\"'",
    "cancel": 'outlast cancel order-1 --reason "the customer called"',
    "terminate": 'outlast terminate order-1 --reason "a duplicate"',
    "set-start-delay": "outlast set-start-delay order-1 10m",
    "activity complete": 'outlast activity complete "$TOKEN" --result \'{"approved": true, "by": "ada"}\'',
    "activity fail": 'outlast activity fail --workflow-id expense-1 --activity-id 1 --message "the service is down"',
    "activity cancel": 'outlast activity cancel "$TOKEN"',
    "activity heartbeat": 'outlast activity heartbeat "$TOKEN" --detail 3 --detail 10',
    "reset": 'outlast reset order-1 --to last-successful --reason "the payment service is back"',
    "fork": "outlast fork order-1 --before 7 --id order-1-trial",
    "resume": 'outlast resume order-1 --reason "cancelled by mistake"',
    "bulk": "outlast bulk cancel --type Order --where customer=c-7",
    "delete": "outlast delete order-1 --children",
    "retention": "outlast retention --once --older-than 30d --export-to /var/lib/outlast/archive",
    "queue define": "outlast queue define emails --concurrency 10 --rate 20/s",
    "queue update": "outlast queue update emails --concurrency 5 --rate none",
    "queue list": "outlast queue list",
    "queue describe": "outlast queue describe emails",
    "queue pause": 'outlast queue pause emails --note "the provider is down"',
    "queue resume": "outlast queue resume emails",
    "queue delete": "outlast queue delete emails",
    "alerts list": "outlast alerts list --workflow order-1",
    "alerts ack": "outlast alerts ack 01998d2e-7a41-7c11-9f5e-2b1d6a0c4e77",
    "upcoming": "outlast upcoming --within 1h --type Order",
    "outbox list": "outlast outbox list --state refused",
    "outbox retry": "outlast outbox retry 17",
    "outbox delete": "outlast outbox delete 17",
    "outbox drain": "outlast outbox drain",
    "schedule create": 'outlast schedule create nightly report --cron "0 2 * * *" --time-zone Europe/Zurich',
    "schedule update": 'outlast schedule update nightly --cron "0 3 * * *" --time-zone Europe/Zurich',
    "schedule apply": "outlast schedule apply reports:SCHEDULES --prune",
    "schedule list": "outlast schedule list",
    "schedule describe": "outlast schedule describe nightly --next 5",
    "schedule next": 'outlast schedule next --cron "30 2 * * 1-5" --time-zone Europe/Zurich',
    "schedule pause": 'outlast schedule pause nightly --note "the warehouse moves"',
    "schedule resume": "outlast schedule resume nightly",
    "schedule delete": "outlast schedule delete nightly",
    "schedule trigger": "outlast schedule trigger nightly",
    "schedule backfill": "outlast schedule backfill nightly 2026-11-01T00:00Z 2026-11-08T00:00Z",
    "workers": "outlast workers --url sqlite:///orders.db",
    "watchdog": "outlast watchdog --url postgresql://orders@db/orders",
    "top": "outlast top --url sqlite:///orders.db",
}
"""By the words that name the command."""

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 not done; 2 bad usage; 3 not found; 4 the database; 5 still running; "
    "130 interrupted."
)
