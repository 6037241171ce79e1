"""Language rollouts: sample groups of answers to prompts, and evaluate lessons."""
