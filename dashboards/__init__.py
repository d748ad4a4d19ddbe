"""The dashboard: web pages that read recorded traces. Never imports torch or the engine."""
