"""Exports of a trace for other programs: one module per format.

Modules:

    graphs    the event graph as GraphML or as node-link JSON
    perfetto  a run as Perfetto's tracks
    chakra    an iteration as Chakra's execution traces, for simulators
    hta       a run as profiles, for HTA and TraceLens
    columns   tables as CSV and Parquet
    protobuf  the encoding of the formats perfetto and chakra
    offline   a replay, or another page of the server, as one standalone file
    pictures  moments and intervals of a replay, drawn by that page
    browser   a headless Chromium that draws them
    gif       frames as an animation
    player    the files of the page
"""
