# Types of the compiled decoder: those of its Python twin.

from kaa.spark.formats._pure_avro import AvroDecoder as AvroDecoder
from kaa.spark.formats._pure_avro import frame_ids as frame_ids
