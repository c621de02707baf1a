"""Why a compiled network is as it is: what was chosen, what else was possible, and what it would have cost."""
