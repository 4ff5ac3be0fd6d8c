"""The simulator's process: watches the API, plans, and does what the plan says. All decisions are in `plan`."""
