"""`gpufleet configure` without the terminal: which hosts, with what secrets, what happened, what is kept."""
