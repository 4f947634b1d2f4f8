"""The data pipeline on Spark. So far only ``kaa.spark.java``, the Java that Spark runs on."""
