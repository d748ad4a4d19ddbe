"""DeepSpeed's interface: its configuration, and the calls of a loop written for it.

    config/        the keys of a configuration: honoured, ignored or refused; needs no torch
    initialize     `initialize` with zerosim's arguments or with DeepSpeed's
    distributed    `init_distributed`
    engine         the engine with DeepSpeed's names
    optimizer, scheduler, dataloader    the other results of `initialize`

Names are those of DeepSpeed 0.19.8. `zerosim.systems.deepspeed.explanation` predicts the traffic of
DeepSpeed itself with a configuration.
"""
