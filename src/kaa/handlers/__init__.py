"""One module per API key: authorise, call the domain, shape the answer. `registry` ties them
together.
"""
