"""Drawing on a GPU: which device, how large a launch, and samples that stay in its memory."""
