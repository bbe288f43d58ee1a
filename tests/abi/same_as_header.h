// Comparisons of a declaration of ours with the one of the real header, for the tests of foreign ABIs.
#ifndef LOCKSTEP_TESTS_ABI_SAME_AS_HEADER_H_
#define LOCKSTEP_TESTS_ABI_SAME_AS_HEADER_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#define EXPECT_SAME_SIZE(ours, theirs) EXPECT_EQ(sizeof(ours), sizeof(theirs)) << #ours
#define EXPECT_SAME_FIELD(ours, our_field, theirs, their_field)                                       \
  do {                                                                                                \
    EXPECT_EQ(offsetof(ours, our_field), offsetof(theirs, their_field)) << #ours "." #our_field;      \
    EXPECT_EQ(sizeof(ours::our_field), sizeof(theirs::their_field)) << #ours "." #our_field " width"; \
  } while (false)
#define EXPECT_SAME_VALUE(ours, theirs) \
  EXPECT_EQ(static_cast<int64_t>(ours), static_cast<int64_t>(theirs)) << #theirs

#endif  // LOCKSTEP_TESTS_ABI_SAME_AS_HEADER_H_
