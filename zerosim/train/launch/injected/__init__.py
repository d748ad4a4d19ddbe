"""The folder that `zerosim trace` puts first on PYTHONPATH; it contains only `sitecustomize`."""
