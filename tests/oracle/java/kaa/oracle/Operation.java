package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;

/** One thing the oracle can be asked: a JSON value in, a JSON value out. */
@FunctionalInterface
interface Operation {
    JsonNode answer(JsonNode item) throws Throwable;
}
