"""The lessons: ZeRO taught with traces. Never imports torch or the engine."""
