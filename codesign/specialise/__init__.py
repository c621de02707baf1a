"""Instructions that networks would gain from: candidates from their nests, a choice under a budget, their worth."""
