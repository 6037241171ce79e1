"""Sample groups of answers to prompts, and evaluate lessons: the language kind of rollouts."""
