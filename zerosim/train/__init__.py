"""Real training on ranks: zerosim's own ZeRO engine and everything that it builds on.

    engine       the four stages; begin with `engine.stages`
    collectives  rings of messages, and the backend's native collectives
    offload      copies between device, host and disk
    device       the memory limit of a simulated device
    models       GPT and MLP, and their training text
    launch       starts ranks, in one way for every command

Its input is a `config.EngineConfig`, its output a trained model. Other packages verify its
behavior, so it imports neither the theory nor the readers of a trace.
"""
