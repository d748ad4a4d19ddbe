"""The folder that `zerosim trace` puts first on PYTHONPATH: it holds `sitecustomize` alone."""
