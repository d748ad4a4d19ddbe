"""A folder for each way to divide a training among ranks, and the registry that knows them.

    registry    which systems there are, also those of other packages; a part of one by its name
    catalogue   which of them `zerosim profiles` runs, and `step`, what these runs share

A folder has what others ask of the system: `observe` (how it is found in a program), `plan` (its
law and calls), `states` (what a rank keeps), `frames` (which rank holds which shard when), `run`
(how zerosim trains with it). zerosim's own engine is in `zerosim.train`, its law in
`zerosim.theory`: it is what all others are compared with. A hand-written program belongs to no
system; `theory.programs.hand_written` says which law it is like.

Units and bundles of a program's first model have their names in it; those of others the model's
name before them, which is also the strategy's option `label`. A model that a micro-step does
without spans this rank alone, and so communicates nothing. Options of a `Strategy`, by system (a
bundle's in parentheses):

    DDP, FSDP2, FSDP1    forwards, backwards: of the model in the micro-step, with gradients
    DDP                  buckets: elements of each bucket as DDP reports them, with bucket_dtypes
                         and bucket_parameters; reduces: whether its backward does; buffer_elements:
                         by dtype, of buffers that are broadcast in the forward, none after one
                         that prepared no reduction; buffer_syncs: how many forwards of the
                         micro-step do that; finds_unused; comm_hook: its name, "" if none.
                         One bundle, "model".
    ZeroRedundancyOptimizer  bucket_view: parameters_as_bucket_view; one bundle for each rank,
                         "rank 0", with the parameters that it updates (owner: global rank)
    FSDP2, FSDP1         one bundle for each wrapped module, named as the module, the outermost
                         "root" (shard_ranks; replicate_ranks: [] if not hybrid; parameter_dtype,
                         reduce_dtype; reshards_after_forward, reshards_after_backward, reduces;
                         reshard_ranks: those among whom it is divided after forward, if fewer;
                         starts_whole: whole already when the micro-step begins;
                         is_reached, of FSDP2: something that is trained is in it or before it;
                         padded_elements: of FSDP1's flat parameter); of FSDP2 also undivided,
                         undivided_frozen: elements of all other parameters, by dtype
    tensor parallel      optimizer: its class, "AdamW fused" if it is; partial_gradients:
                         parameters whose gradients are sums that lack the other ranks' when it
                         begins: each operation that reads one completes it; whole_gradients:
                         divided parameters whose gradients are not; undivided, undivided_frozen:
                         elements of all other parameters, by dtype.
                         One bundle for each style of a module (style: "column", "row", "sequence",
                         "prepare input", "prepare output" or "other"; of what comes in
                         input_shape, input_dtype, input_layout, wanted_layout: the style makes one
                         of the other; input_is_tensor: False for a DTensor; wanted_is_tensor;
                         input_has_gradient; of what goes out output_shape, dtype, made_layout,
                         output_layout, output_is_tensor; forwards: in one micro-step; recomputed:
                         how often in its backward). Shapes are whole; a layout is "replicate",
                         "shard 1" or "partial"
    pipeline parallel    schedule, num_stages, num_microbatches, ranks_by_stage; one bundle for
                         each stage of this rank, "stage 1" (index; output_shapes, dtypes: what it
                         sends on for one micro-batch, [] for the last; output_gradients: which of
                         them have a gradient that comes back; likewise input_shapes, input_dtypes,
                         input_gradients)
    DeepSpeed            stage and the values of its configuration that decide what it sends, by
                         their own names; bundles: its buckets or modules as far as it says
    hand-written         none; one bundle, "model"
"""
