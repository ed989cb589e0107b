# Each command does all of its set-up and asks nothing but what sudo asks.

.PHONY: demo test bench docs

# Build, then run a python, a bash and a node program in a sandbox.
demo:
	@tests/demo

# All tests; the last line is `N passed, N failed, N skipped`. TIERS="unit cases" runs some of them.
test:
	@tests/run $(TIERS)

# Times next to the bare interpreters and bubblewrap. Not a test.
bench:
	@tests/bench/run

# The pages that are made from the code's own tables.
docs:
	@cargo run --locked -q -p packaging -- docs
