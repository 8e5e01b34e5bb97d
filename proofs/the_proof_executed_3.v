(* Page 13, "The universality proof, executed"
   (notebooks/sparse_universality/the_proof_executed.ipynb), continued.
   Theorem 13.2: the parts of the_proof_executed.v put together, from the input to the output. Compile
   the_proof_executed.v and the_proof_executed_2.v first. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions patterns_and_conditions the_proof_executed the_proof_executed_2.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Network.
Variables (R : archiFieldType) (n d p K s : nat) (A : nat -> 'I_n -> {set 'I_n}) (gamma : nat -> 'I_n).
Hypotheses (n1 : (1 < n)%N) (K1 : (1 < K)%N) (p0 : (0 < p)%N) (s0 : (0 < s)%N).
Hypotheses (c1 : condition1 p A) (c3 : full p A s).
Hypothesis gamma_onto : forall k, exists2 i, (i < n)%N & gamma i = k.
Hypothesis c2 : forall i, (i.+1 < n)%N -> exists2 l, (l < p)%N & gamma i \in A l (gamma i.+1).
Local Notation grid := {ffun 'I_n * 'I_d.+1 -> 'I_K}.
Local Notation Q := (grid * 'I_n)%type.
Local Notation mat := 'M[R]_(n, d.+1).
Implicit Types (Z X : mat) (g : grid).

(* (13.3) *)
Definition N := (K ^ d.+1)%N.
Definition B := (\sum_(c < d.+1) K * K ^ c)%N.
Definition u : 'cV[R]_d.+1 := \col_c (K ^ c)%:R.
Definition row_ids Z j := number u (row j Z).
(* The code of token j: n - 1 for gamma 0, and i - 1 for gamma i. *)
Variable code : 'I_n -> nat.
Hypothesis codes : forall i, (i < n)%N -> code (gamma i) = if i is k.+1 then k else n.-1.
(* The network measures in cells, and adds K e to all entries of a row. *)
Definition coded X : mat := K%:R *: X + \matrix_(j, c) (K * code j)%:R.
(* A layer of heads reads ids; its output goes to the first feature, where u has a 1. *)
Definition attention_layer (f : ('I_n -> R) -> 'I_n -> R) Z : mat :=
  \matrix_(j, c) (Z j c + if c == 0 then f (row_ids Z) j - row_ids Z j else 0).
Variable C : nat.
Definition sweep_heads : seq (('I_n -> R) -> 'I_n -> R) :=
  flatten [seq [seq (fun z => head_sweep_layer N A gamma i z vl) | vl <- stage_layers n p N B i] |
           i <- iota 1 n.-1].
Definition share_head t : ('I_n -> R) -> 'I_n -> R := max_layer C (A (t %% p)%N).
Definition share_heads := [seq share_head t | t <- iota 0 s].
Definition attend Z := foldl (fun Z f => attention_layer f Z) Z (sweep_heads ++ share_heads).
(* The centre of a cell, and the integer rows of a grid input after its codes. *)
Definition centre g : mat := \matrix_(j, c) (((g (j, c))%:R + 2%:R^-1) / K%:R).
Definition grid_rows g : mat := \matrix_(j, c) (g (j, c) + K * code j)%:R.
Definition attended (q : Q) := row q.2 (attend (grid_rows q.1)).
Definition id_of (q : Q) : nat :=
  context p N B C s A gamma (input_id (fun j => code j * B)%N q.1) q.2.
(* The network for f. *)
Variable f : mat -> mat.
Definition wanted (q : Q) : 'rV[R]_d.+1 := K%:R *: row q.2 (f (centre q.1)).
Definition look_up (z : 'rV[R]_d.+1) :=
  foldl (value_layer u (fun q => Posz (id_of q)) attended wanted) z (enum [finType of Q]).
Definition network X : mat :=
  let Z := attend (run (quantiser_layers n d.+1 K) (coded X)) in
  K%:R^-1 *: \matrix_j look_up (row j Z).

Lemma row_idsE Z j : row_ids Z j = \sum_c Z j c * (K ^ c)%:R.
Proof. by rewrite /row_ids /number mxE; apply: eq_bigr => c _; rewrite !mxE. Qed.
Lemma attention_ids h Z : row_ids (attention_layer h Z) =1 h (row_ids Z).
Proof.
move=> j; rewrite row_idsE; under eq_bigr do rewrite mxE mulrDl.
rewrite big_split /= -row_idsE (bigD1 ord0) //= ?eqxx expn0 mulr1 big1 ?addr0; last first.
  by move=> c /negbTE ->; rewrite mul0r.
by rewrite addrC subrK.
Qed.
Definition run_heads (hs : seq (('I_n -> R) -> 'I_n -> R)) z := foldl (fun z h => h z) z hs.
Definition extensional (h : ('I_n -> R) -> 'I_n -> R) := forall z z', z =1 z' -> h z =1 h z'.
Fixpoint all_extensional (hs : seq (('I_n -> R) -> 'I_n -> R)) :=
  if hs is h :: r then extensional h /\ all_extensional r else True.
Lemma all_extensional_cat hs hs' :
  all_extensional hs -> all_extensional hs' -> all_extensional (hs ++ hs').
Proof. by elim: hs => //= h r IH [eh er] e'; split=> //; apply: IH. Qed.
Lemma run_ids hs Z z : all_extensional hs -> row_ids Z =1 z ->
  row_ids (foldl (fun Z h => attention_layer h Z) Z hs) =1 run_heads hs z.
Proof.
elim: hs Z z => //= h hs IH Z z [eh ext] e; apply: IH => // j.
by rewrite attention_ids; apply: eh.
Qed.
Lemma sweep_run k z : run_heads (flatten [seq [seq (fun z => head_sweep_layer N A gamma i z vl) |
  vl <- stage_layers n p N B i] | i <- iota 1 k]) z = head_sweep p N B A gamma k z.
Proof.
have stage_run i w : run_heads [seq (fun z => head_sweep_layer N A gamma i z vl) |
    vl <- stage_layers n p N B i] w = head_stage p N B A gamma i w.
  by rewrite /head_stage; elim: (stage_layers _ _ _ _ _) w => //= vl r IH w; rewrite -IH.
elim: k => // k IH; have := iotaD 1 k 1; rewrite addn1 => ->.
rewrite map_cat flatten_cat /run_heads foldl_cat -!/(run_heads _ _) IH /= cats0.
exact: stage_run.
Qed.
Lemma share_run t z : run_heads [seq share_head t' | t' <- iota 0 t] z = head_share p C A t z.
Proof.
elim: t => // t IH; have := iotaD 0 t 1; rewrite addn1 => ->.
by rewrite map_cat /run_heads foldl_cat -!/(run_heads _ _) IH.
Qed.

Lemma head_layer_ext i vl : extensional (fun z => head_sweep_layer N A gamma i z vl : 'I_n -> R).
Proof.
by move=> z z' e j; rewrite /head_sweep_layer; case: ifP => // _; apply: shift_layer_ext.
Qed.
Lemma heads_ext : all_extensional (sweep_heads ++ share_heads).
Proof.
apply: all_extensional_cat.
  rewrite /sweep_heads; elim: (iota 1 n.-1) => //= i r IH; apply: all_extensional_cat => //.
  by elim: (stage_layers _ _ _ _ _) => //= vl q IHq; split=> //; apply: head_layer_ext.
rewrite /share_heads; elim: (iota 0 s) => //= t r IH; split=> // z z' e; exact: max_layer_ext.
Qed.
Lemma attend_ids Z z : row_ids Z =1 z -> row_ids (attend Z) =1 head_context p N B C s A gamma z.
Proof.
move=> e j; rewrite /attend (run_ids heads_ext e) /run_heads foldl_cat -/(run_heads _ _).
by rewrite -/(run_heads _ _) sweep_run share_run.
Qed.
Lemma grid_ids g : row_ids (grid_rows g) =1 real_ids R (input_id (fun j => code j * B)%N g).
Proof.
move=> j; rewrite row_idsE /real_ids /input_id /row_id natrD addrC.
under eq_bigr do rewrite mxE natrD mulrDl; rewrite big_split /=; congr (_ + _).
  by rewrite natr_sum; apply: eq_bigr => c _; rewrite natrM.
rewrite -[RHS]/((code j * \sum_(c < d.+1) K * K ^ c)%N%:R) big_distrr natr_sum.
by apply: eq_bigr => c _; rewrite -natrM /= mulnA [(code j * K)%N]mulnC.
Qed.
Lemma N_gt1 : (1 < N)%N.
Proof. by rewrite /N expnS (leq_trans K1) // leq_pmulr // expn_gt0 ltnW. Qed.
Lemma NB : (N <= B)%N.
Proof. by rewrite /B big_ord_recr /= /N expnS leq_addl. Qed.
Lemma B_lt : (B < 2 * N)%N.
Proof.
rewrite /B /N; elim: (d) => [|d' IH].
  by rewrite big_ord1 expn0 muln1 expn1 mul2n -addnn -[X in (X < _)%N]addn0 ltn_add2l ltnW.
rewrite big_ord_recr /= [(K ^ d'.+2)%N]expnS mul2n -addnn.
rewrite ltn_add2r; by apply: leq_trans IH _; rewrite leq_mul2r K1 orbT.
Qed.

(* What C must be: (13.5), and all ids above all wanted rows. *)
Hypothesis gapC : ((C.+1 ^ s - C ^ s) * y N (extreme n N B) n.-1 < C ^ s)%N.
Hypothesis above : forall q : Q, `|number u (wanted q)| + 2%:R^-1 < C%:R.
Lemma low_codes i : (i < n)%N -> (code (gamma i) * B = low n B i)%N.
Proof. by move=> ilt; rewrite codes //; case: i ilt. Qed.
Lemma attended_ids q : number u (attended q) = (id_of q)%:R.
Proof.
rewrite /attended -/(row_ids _ _) (attend_ids (grid_ids q.1)).
exact: head_contextE.
Qed.
Lemma contexts : injective id_of /\ forall q, (C <= id_of q)%N.
Proof.
have n0 : (0 < n)%N by apply: ltnW.
have [_ inj _ quot] := @grid_contexts n d.+1 p K B C s A gamma N_gt1 NB n0 p0 s0 c1 c3 gamma_onto c2
  B_lt gapC (fun j => code j * B)%N low_codes R.
split=> // q; have range := @input_range n d.+1 K B gamma N_gt1 (fun j => code j * B)%N low_codes q.1.
(* The quotient y_n is at least x_1, which is not 0. *)
have y1 : (0 < y N (fun i => input_id (fun j => code j * B)%N q.1 (gamma i)) n.-1)%N.
  apply: leq_trans (y_from N_gt1 NB n0 range _); last by rewrite prednK.
  have /andP[+ _] := range 0%N n0; apply: leq_trans; rewrite /low muln_gt0.
  by rewrite -ltnS prednK // n1 /= (leq_trans _ NB) // ltnW // N_gt1.
have Cs : (C <= C ^ s)%N.
  by case: (posnP C) => [->//|C0]; rewrite -[X in (X <= _)%N]expn1 leq_pexp2l.
have C0 : (0 < C ^ s)%N by apply: leq_ltn_trans gapC.
apply: leq_trans Cs _; rewrite -[X in (X <= _)%N]mul1n -leq_divRL //.
by move: y1; rewrite -(quot q.1 q.2).
Qed.
Lemma looked_up q : look_up (attended q) = wanted q.
Proof.
have [inj big] := contexts.
have [||q1 q2|get _] := @values R n d.+1 K u (fun q => Posz (id_of q)) attended wanted _ _ _
  (enum [finType of Q]) (perm_refl _); last exact: get.
- by move=> q'; rewrite attended_ids.
- by move=> q1 q2 [] /inj.
by apply: lt_le_trans (above q1) _; rewrite -[_%:~R]/((id_of q2)%:R) ler_nat.
Qed.

(* In which cell a row lies. *)
Lemma cell (t : R) k : 0 <= t < k%:R -> exists i : 'I_k, i%:R <= t < i.+1%:R.
Proof.
elim: k => [|k IH] /andP[t0 tk]; first by move: tk; rewrite ltNge t0.
have [tk'|kt] := ltP t k%:R; last by exists ord_max; rewrite kt tk.
by have [|i ti] := IH; [rewrite t0 tk' | exists (widen_ord (leqnSn k) i)].
Qed.
Lemma code_lt j : (code j < n)%N.
Proof.
have [i ilt <-] := gamma_onto j; rewrite codes //; case: i ilt => [_|i /ltnW //].
by rewrite prednK // ltnW.
Qed.
Theorem network_at X : (forall j c, 0 <= X j c < 1) -> exists g : grid,
  (forall j c, `|X j c - centre g j c| <= (2 * K)%:R^-1) /\ network X = f (centre g).
Proof.
move=> X01; have K0 : 0 < K%:R :> R by rewrite ltr0n ltnW.
have /fin_all_exists[i iP] : forall jc : 'I_n * 'I_d.+1, exists i : 'I_K,
    i%:R <= K%:R * X jc.1 jc.2 < i.+1%:R.
  move=> [j c]; apply: cell; have /andP[x0 x1] := X01 j c.
  by rewrite mulr_ge0 ?(ltW K0) //= -[Y in _ < Y]mulr1 ltr_pmul2l.
pose g : grid := [ffun jc => i jc]; exists g; split=> [j c|].
  have /= /andP[lo up] := iP (j, c); rewrite mxE ffunE.
  have -> : X j c - ((i (j, c))%:R + 2%:R^-1) / K%:R =
      (K%:R * X j c - (i (j, c))%:R - 2%:R^-1) / K%:R.
    by rewrite -addrA -opprD mulrBl [K%:R * _]mulrC mulfK ?gt_eqF.
  rewrite natrM invfM normrM [`|K%:R^-1|]gtr0_norm ?invr_gt0 // ler_pmul2r ?invr_gt0 //.
  have h : 2%:R^-1 + 2%:R^-1 = 1 :> R by rewrite -mulr2n -[_ *+ 2]mulr_natl mulfV ?pnatr_eq0.
  rewrite ler_norml ler_subr_addr addNr subr_ge0 lo /= ler_subl_addr h ler_subl_addr.
  by rewrite addrC -mulrSr ltW.
rewrite /network; have -> : run (quantiser_layers n d.+1 K) (coded X) = grid_rows g.
  have [||-> _] := @quantise R n d.+1 K (coded X) (\matrix_(j, c) (g (j, c) + K * code j)%N).
  - move=> j c; rewrite mxE; apply: leq_trans (_ : K + K * code j <= _)%N; first by rewrite ltn_add2r.
    by rewrite -mulnS mulnC leq_mul2r code_lt orbT.
  - move=> j c; have /= := iP (j, c); rewrite !mxE ffunE -addSn !natrD => /andP[lo up].
    by rewrite ler_add2r lo ltr_add2r.
  by apply/matrixP => j c; rewrite !mxE.
apply/row_matrixP => j; rewrite linearZ /= rowK.
have -> : row j (attend (grid_rows g)) = attended (g, j) by [].
by rewrite looked_up /wanted /= scalerA mulVf ?scale1r // gt_eqF.
Qed.
End Network.

(* Theorem 13.2 (Universality): omega is any bound of how far f changes when no entry changes by more
   than 1 / (2K), at the input X. The order of condition 2 is gamma 0, ..., gamma (n - 1). *)
Theorem universality (R : archiFieldType) (n d p K s : nat) (A : nat -> 'I_n -> {set 'I_n})
    (gamma : nat -> 'I_n) (f : 'M[R]_(n, d.+1) -> 'M[R]_(n, d.+1)) :
  (1 < n)%N -> (1 < K)%N -> (0 < p)%N -> (0 < s)%N -> condition1 p A -> full p A s ->
  (forall k, exists2 i, (i < n)%N & gamma i = k) ->
  (forall i, (i.+1 < n)%N -> exists2 l, (l < p)%N & gamma i \in A l (gamma i.+1)) ->
  exists (code : 'I_n -> nat) (C : nat), forall X : 'M[R]_(n, d.+1),
  (forall j c, 0 <= X j c < 1) -> forall omega,
  (forall X' : 'M[R]_(n, d.+1), (forall j c, 0 <= X' j c < 1) ->
     (forall j c, `|X j c - X' j c| <= (2 * K)%:R^-1) ->
     forall j c, `|f X' j c - f X j c| <= omega) ->
  forall j c, `|network p K s A gamma code C f X j c - f X j c| <= omega.
Proof.
move=> n1 K1 p0 s0 c1 c3 onto c2.
(* Each token has one place in the order, and its code. *)
pose order := mkseq gamma n; have uniq_order : uniq order.
  apply: (leq_size_uniq (enum_uniq 'I_n)); last by rewrite size_mkseq size_enum_ord.
  by move=> k _; have [i ilt <-] := onto k; rewrite map_f // mem_iota.
pose code j := if index j order is k.+1 then k else n.-1.
have codes i : (i < n)%N -> code (gamma i) = if i is k.+1 then k else n.-1.
  by move=> ilt; rewrite /code -[gamma i](nth_mkseq (gamma 0%N) gamma ilt) index_uniq ?size_mkseq.
pose m := y (N d K) (extreme n (N d K) (B d K)) n.-1.
pose size (q : {ffun 'I_n * 'I_d.+1 -> 'I_K} * 'I_n) := `|number (u R d K) (wanted f q)| + 2%:R^-1.
have size0 q : 0 <= size q by rewrite addr_ge0 ?normr_ge0 // invr_ge0 ler0n.
pose b := Num.bound (\sum_q size q); pose C := (2 * s * (m + b).+1)%N.
have gapC : ((C.+1 ^ s - C ^ s) * m < C ^ s)%N.
  apply: leq_ltn_trans (@large_enough s (m + b).+1 s0 isT); rewrite leq_mul2l.
  by rewrite (leq_trans (leq_addr b m)) // ?orbT.
have above q : size q < C%:R.
  apply: le_lt_trans (_ : \sum_q size q < _); first by rewrite (bigD1 q) //= ler_addl sumr_ge0.
  apply: lt_le_trans (archi_boundP (sumr_ge0 _ (fun q _ => size0 q))) _; rewrite ler_nat -/b.
  rewrite (leq_trans (leq_addl m b)) // (leq_trans (leqnSn _)) // leq_pmull //.
  by rewrite muln_gt0.
exists code, C => X X01 omega near j c.
have [g [close ->]] := network_at n1 K1 p0 s0 c1 c3 onto c2 codes gapC above X01.
apply: near => // {}j {}c; rewrite mxE; have K0 : 0 < K%:R :> R by rewrite ltr0n ltnW.
rewrite divr_ge0 ?addr_ge0 ?invr_ge0 ?ler0n //= ltr_pdivr_mulr // mul1r.
apply: lt_le_trans (_ : (g (j, c))%:R + 1 <= _).
  by rewrite ltr_add2l invf_lt1 ?ltr0n // ltr1n.
by rewrite -mulrSr ler_nat.
Qed.
(* An instance: two tokens that read each other, two cells, two features. *)
Example universality_met (R : archiFieldType) (f : 'M[R]_(2, 2) -> 'M[R]_(2, 2)) :
  exists (code : 'I_2 -> nat) (C : nat), forall X : 'M[R]_(2, 2), (forall j c, 0 <= X j c < 1) ->
  forall omega, (forall X' : 'M[R]_(2, 2), (forall j c, 0 <= X' j c < 1) ->
     (forall j c, `|X j c - X' j c| <= 4%:R^-1) -> forall j c, `|f X' j c - f X j c| <= omega) ->
  forall j c, `|network 1 2 1 (fun _ _ => setT) inord code C f X j c - f X j c| <= omega.
Proof.
apply: (@universality R 2 1 1 2 1 (fun _ _ => setT) inord f) => //.
- by move=> k; apply/setP => i; rewrite [RHS]inE; apply/bigcupP; exists i; rewrite inE.
- by move=> k; exists k; rewrite ?inord_val.
by move=> i _; exists 0%N; rewrite ?inE.
Qed.
