"""Text generation with a small transformer: model, checkpoints, tokenizers, engine, server."""
