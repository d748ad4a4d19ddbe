"""Training for real, on ranks: zerosim's own ZeRO engine and all that it stands on.

    engine       the four stages; begin with `engine.stages`
    collectives  rings of messages, and the backend's own calls
    offload      copies between device, host and disk
    device       a device's memory where there is no device
    models       GPT and MLP, and the text that they read
    launch       starting ranks, in one way for every command

It is given a `config.EngineConfig` and gives a trained model; what it did is proved by others, so
it knows no theory and nothing of those who read a trace.
"""
