"""Evidence: the latest figures of each benchmark and campaign, and what writes them.

`python tools/bench open --save` replaces bench-open.json, `python tools/campaigns follow --save`
replaces follow.json. Every file names its command and the machine.
"""
