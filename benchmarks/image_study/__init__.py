"""Which learner for image folders: a network from scratch, frozen features, a fine-tuned network, averages."""
