# Deep validation of a record area.
