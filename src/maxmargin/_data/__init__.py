"""Where rows live: memory, files, dask and torch."""
