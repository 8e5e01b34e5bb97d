(* Page 13, "The universality proof, executed"
   (notebooks/sparse_universality/the_proof_executed.ipynb), continued.
   Proposition 13.10 (Layers and bits). Compile the_proof_executed.v first. *)
From mathcomp Require Import all_ssreflect.
Require Import patterns_and_conditions the_proof_executed.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* The contextual map takes p (n - 1) K^d + s attention layers: the sweep has the stages
   1, ..., n - 1, and s all-max layers follow. N = K^d is the length of the intervals. *)
Definition all_layers n p N B s :=
  flatten [seq stage_layers n p N B i | i <- iota 1 n.-1] ++ nseq s (0, 0).
Theorem number_of_layers n p K d B s :
  size (all_layers n p (K ^ d) B s) = p * n.-1 * K ^ d + s.
Proof.
rewrite size_cat size_nseq size_flatten /shape -map_comp; congr (_ + _).
rewrite sumnE big_map (eq_bigr (fun _ => K ^ d * p)) => [|i _].
  by rewrite big_const_seq count_predT size_iota iter_addn_0 -mulnA mulnC.
by rewrite /= size_allpairs !size_iota.
Qed.

(* (13.5) *)
Definition large s m C := (C.+1 ^ s - C ^ s) * m < C ^ s.
(* (1 + 1/C)^s < 1 / (1 - s/C) *)
Lemma geometric C s : 0 < C -> 0 < s -> C.+1 ^ s * (C - s) < C ^ s.+1.
Proof.
move=> C0; case: s => // s _; elim: s => [|s IH].
  by case: C C0 => // c _; rewrite expn1 -mulnn subn1 /= !mulSn mulnS addSn.
(* (C + 1) (C - s - 1) <= C (C - s) *)
have step : C.+1 * (C - s.+2) <= C * (C - s.+1).
  rewrite subnS; have := leq_subr s.+1 C; case: (C - s.+1) => [|r] rC; first by rewrite !muln0.
  by rewrite /= mulSn mulnS leq_add2r ltnW.
apply: leq_ltn_trans (_ : C * (C.+1 ^ s.+1 * (C - s.+1)) < _).
  by rewrite [C.+1 ^ s.+2]expnSr -mulnA [X in _ <= X]mulnCA leq_mul2l step orbT.
by rewrite [C ^ s.+3]expnS ltn_pmul2l.
Qed.

(* C = 2 s m satisfies (13.5), so the least C is at most 2 s m. *)
Theorem large_enough s m : 0 < s -> 0 < m -> large s m (2 * s * m).
Proof.
move=> s0 m0; set C := 2 * s * m; have C0 : 0 < C by rewrite !muln_gt0 s0.
have CC : C ^ s <= C.+1 ^ s by rewrite leq_exp2r.
(* D = (C + 1)^s - C^s has D (C - s) < s C^s, and C - s >= s m. *)
have sC : s <= C by rewrite /C mulnAC leq_pmull // muln_gt0.
have D : (C.+1 ^ s - C ^ s) * (C - s) < C ^ s * s.
  rewrite mulnBl ltn_subLR; last by rewrite leq_mul2r CC orbT.
  by rewrite -mulnDr subnK // -expnSr geometric.
have le : s * m <= C - s.
  by rewrite leq_subRL // addnC /C -mulnA mul2n -addnn leq_add2l leq_pmulr.
rewrite /large -(ltn_pmul2r s0); apply: leq_ltn_trans D.
by rewrite -mulnA leq_mul2l [m * s]mulnC le orbT.
Qed.

(* No id exceeds (C + 1)^s m, and for the least C it is below (2 n N^n)^(s+1) (2 s)^s: it has no
   more bits than this number, whose logarithm is (s + 1) log_2 (2 n N^n) + s log_2 (2 s). The ids after
   the sweep are at most m, and m < 2 n N^n (Lemma 13.6, sweep_bound). *)
Section Bits.
Variables (T : finType) (p : nat) (A : nat -> T -> {set T}) (C m n N s : nat).
Variables (y : T -> nat) (last : T).
Hypotheses (y_last : forall j, y j <= y last) (y_m : y last <= m) (m_small : m < 2 * n * N ^ n).
Theorem largest_id j : ids p A C y s j <= C.+1 ^ s * m.
Proof. by apply: leq_trans (ids_above p A C y_last s j) _; rewrite leq_mul2l y_m orbT. Qed.

Definition bits a := (trunc_log 2 a).+1.                 (* binary digits of a > 0 *)
Hypotheses (s0 : 0 < s) (m0 : 0 < m).
Hypothesis least : large s m C /\ forall C', large s m C' -> C <= C'.
Theorem id_bits j : ids p A C y s j < (2 * n * N ^ n) ^ s.+1 * (2 * s) ^ s /\
  bits (ids p A C y s j) <= bits ((2 * n * N ^ n) ^ s.+1 * (2 * s) ^ s).
Proof.
suff lt : ids p A C y s j < (2 * n * N ^ n) ^ s.+1 * (2 * s) ^ s.
  by split; rewrite // ltnS leq_trunc_log // ltnW.
have [gapC /(_ _ (large_enough s0 m0)) C_le] := least.
(* (C + 1)^s m < C^s (m + 1), by (13.5) *)
have : C.+1 ^ s * m < C ^ s * m.+1.
  rewrite mulnS addnC -ltn_subLR ?leq_mul2r ?leq_exp2r ?leqnSn ?orbT // -mulnBl; exact: gapC.
move/(leq_ltn_trans (largest_id j))/leq_trans; apply.
apply: leq_trans (_ : (2 * s * m) ^ s * m.+1 <= _).
  by rewrite leq_mul2r leq_exp2r // C_le orbT.
rewrite expnMn -mulnA mulnC leq_mul2r; apply/orP; right.
by rewrite expnSr leq_mul // leq_exp2r // ltnW.
Qed.
End Bits.
(* An instance: for s = 2 and m = 3 the least C is 7. (64 - 49) 3 = 45 < 49, but 39 >= 36. *)
Example least_7 : large 2 3 7 /\ forall C, large 2 3 C -> 7 <= C.
Proof. by split=> // -[|[|[|[|[|[|[|C]]]]]]]. Qed.

(* Three tokens of id 3, twice shared with the least weight 7. *)
Example id_bits_met p (A : nat -> 'I_3 -> {set 'I_3}) j (y := fun _ : 'I_3 => 3) :
  ids p A 7 y 2 j < (2 * 1 * 2 ^ 1) ^ 3 * (2 * 2) ^ 2.
Proof. by have [] := @id_bits _ p A 7 3 1 2 2 y ord0 _ _ _ _ _ least_7 j. Qed.
Example largest_id_met p (A : nat -> 'I_3 -> {set 'I_3}) j (y := fun _ : 'I_3 => 3) :
  ids p A 7 y 2 j <= 8 ^ 2 * 3.
Proof. exact: (@largest_id _ p A 7 3 2 y ord0). Qed.
