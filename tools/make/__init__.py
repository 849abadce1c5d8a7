"""Makers: lists of keys to measure with, and the golden files of the tests.

python tools/make/make_list.py --kind urls --lines 1e6 > urls.txt
python tools/make/make_golden.py tests/golden bloom
"""
