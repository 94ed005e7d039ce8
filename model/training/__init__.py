"""Training of small translation models: text to packs, the run, distillation, evaluation."""
