"""What a trace becomes for other programs: one format a file.

graphs    the event graph as GraphML or as node-link JSON
perfetto  a run as Perfetto's tracks
chakra    an iteration as Chakra's execution traces, for simulators
hta       a run as profiles, for HTA and TraceLens
columns   tables as CSV and Parquet
protobuf  the encoding of these two
offline   a replay, or another page of the server, as one page, which needs no server
pictures  moments and stretches of a replay, drawn by that page
browser   a Chromium without a window, in which it does
gif       frames as a film
player    the files that the page is made of
"""
