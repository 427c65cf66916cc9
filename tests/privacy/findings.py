# SPDX-License-Identifier: Apache-2.0
"""The findings of the audit of what leaves the process and what can be misused, and the tests that close each."""

CANARIES = "tests/privacy/test_canaries.py::test_what_torchspan_writes_has_no_canary_but_names_where_names_may_be"
BYTES = "tests/privacy/test_canaries.py::test_no_byte_holds_a_canary_in_any_encoding"
WORDS = "tests/privacy/test_properties.py::test_of_a_value_in_a_message_no_word_is_left_whatever_stands_around_it"
SENTENCES = "tests/privacy/test_sentences.py::test_in_each_place_every_sentence_gives_the_same_output"
KNOWN = "tests/redaction/test_messages.py::test_a_message_of_a_library_leaves_with_its_reason_and_without_the_values_of_the_program"
_FILES = "tests/_base/test_files.py"
_SAFETY = "tests/sdk/test_file_safety.py"
_HOSTILE = "tests/cli/test_show_hostile.py"
_EMPTIED = "tests/privacy/test_canaries.py::test_a_child_has_the_baggage_and_one_with_an_emptied_environment_has_none"

FINDINGS = {
    "A1 a command line, passwords included, becomes service.name": (
        "tests/launched/test_service_name.py::test_of_what_is_not_a_plain_name_no_part_is_taken",
        "tests/launched/test_own_provider.py::test_no_word_of_a_command_line_becomes_the_service_but_a_plain_name",
        CANARIES,
    ),
    "A2 text of the program's, raised by a library's frame": (CANARIES, BYTES, WORDS),
    "A3 paths of load and save": (CANARIES, BYTES),
    "A4 one odd quote turns the redaction inside out": (
        CANARIES,
        WORDS,
        SENTENCES,
        "tests/redaction/test_messages.py::test_a_text_leaves_only_as_a_whole_message_that_is_known",
        KNOWN,
    ),
    "A5 names of layers and nodes in TensorRT's lines": (
        CANARIES,
        WORDS,
        KNOWN,
    ),
    "A6 free text in attributes": (
        CANARIES,
        "tests/writer/test_typed_values.py::test_no_row_of_strings_lets_a_canary_through",
    ),
    "A7 anything behind an operator's prefix": (
        WORDS,
        "tests/redaction/test_kinds_of_text.py::test_an_operator_that_is_not_known_is_a_question_mark",
    ),
    "A8 torchspan's own failure writes the user's value to the log": (
        "tests/_base/test_errors.py::test_of_a_failure_of_torchspans_own_a_warning_has_the_class_and_no_text",
        "tests/_base/test_errors.py::test_no_code_of_an_exceptions_class_runs_for_the_warning",
        CANARIES,
    ),
    "A9 code.file.path is absolute": (
        "tests/redaction/test_kinds_of_text.py::test_a_file_below_the_import_path_is_distinguished_from_there_on",
        "tests/redaction/test_kinds_of_text.py::test_where_texts_are_captured_a_place_is_absolute",
        CANARIES,
    ),
    "A10 baggage in the environment of a child that was to have none": (
        _EMPTIED,
        "tests/propagation/test_environment.py::test_baggage_is_not_put_into_an_environment_that_was_emptied_and_the_parent_is",
    ),
    "B1 a pipe as trace file hangs the program": (
        f"{_SAFETY}::test_a_pipe_does_not_keep_the_program_from_ending",
        f"{_FILES}::test_a_file_that_is_swapped_for_a_pipe_is_refused_and_not_waited_for",
    ),
    "B2 the user's __str__ is run on exceptions": (
        "tests/writer/test_hostile_exceptions.py::test_no_method_or_property_of_an_exception_runs",
        "tests/probes/test_no_code_runs.py::test_a_describing_function_asks_nothing",
    ),
    "B3 reports of a run are written through a link": (
        "tests/cli/test_run_hostile_files.py::test_a_process_that_outlives_its_run_writes_through_no_link_and_leaves_nothing",
    ),
    "B4 modes, links and foreign files of the file exporter": (
        f"{_FILES}::test_a_file_that_is_made_is_for_its_owner_alone_whatever_the_umask",
        f"{_FILES}::test_a_link_is_refused_and_what_it_leads_to_is_neither_written_nor_made",
        f"{_FILES}::test_a_file_with_a_second_name_is_refused",
        f"{_FILES}::test_a_file_of_another_user_is_refused",
    ),
    "B5 a span's name has no bound": (
        "tests/privacy/test_properties.py::test_the_name_of_a_span_is_reduced_once",
        CANARIES,
    ),
    "B6 who can read the file can hold its lock": (
        f"{_SAFETY}::test_a_lock_that_is_held_costs_a_tenth_of_a_second_once_and_nothing_is_lost",
    ),
    "B7 metrics are not bounded": (
        "tests/writer/test_typed_values.py::test_a_metric_has_fifty_exception_classes_and_the_others_are_other",
    ),
    "B8 the guard's table grows by the names of callbacks": (
        "tests/_base/test_errors.py::test_a_guard_remembers_a_bounded_number_of_names_and_counts_all",
        "tests/_base/test_errors.py::test_the_name_of_a_callback_has_a_bound",
    ),
    "B9 a propagator of the program's that sets what is not an environment": (
        "tests/propagation/test_carrier.py::test_what_could_not_be_a_variable_is_left_out_and_the_child_starts",
    ),
    "B10 without_gpu runs a planted engine": (
        "tests/testing/test_engine_folder.py::test_an_entry_that_torchspan_did_not_write_is_not_read_even_if_this_user_owns_it",
        "tests/testing/test_engine_folder.py::test_a_folder_that_others_may_write_to_is_neither_read_nor_written",
    ),
    "B11 run opens what it finds under its output's name": (
        "tests/cli/test_run_hostile_files.py::test_a_pipe_under_a_name_of_the_family_is_not_read",
        "tests/cli/test_run_hostile_files.py::test_a_link_to_a_device_without_an_end_is_not_read",
    ),
    "C an integer of 4,000 digits ends show": (
        f"{_HOSTILE}::test_no_number_keeps_a_file_from_being_drawn",
        f"{_HOSTILE}::test_what_64_bits_do_not_hold_is_not_drawn",
    ),
    "C show is quadratic in the length of a text and in the depth of a chain": (
        f"{_HOSTILE}::test_of_a_text_of_200000_characters_the_beginning_is_drawn_wherever_it_stands",
        "tests/cli/test_show_grows.py::test_a_chain_of_60000_spans_is_drawn",
        "tests/cli/test_show_grows.py::test_four_times_as_much_takes_about_four_times_as_many_steps",
    ),
    "C invisible and combining characters are drawn": (
        f"{_HOSTILE}::test_characters_that_are_not_seen_are_written_out",
        f"{_HOSTILE}::test_a_pile_of_marks_is_written_out_and_takes_the_columns_that_it_is_given",
    ),
}
"""Finding -> tests. Sections A (leaks), B (misuse) and C (`show`) of the audit, a line each."""
