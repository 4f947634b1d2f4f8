# Part of kaa.records._kernel.
