"""When a schedule fires: cron texts, intervals and instants, without a clock and without a database."""
